"""Rendering: Charts and Tables from results, and the text, pictures and pages that show them."""
