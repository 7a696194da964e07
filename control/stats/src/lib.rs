//! Statistics as CSV, typed lines, JSON and the HTML page.
