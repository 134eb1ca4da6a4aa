"""What the page is answered with: functions over predictions, gaps and charts that return plain documents."""
