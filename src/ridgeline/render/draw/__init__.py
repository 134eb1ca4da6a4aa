"""Drawers: each turns a Chart or Table into one medium and sees no physics."""
