"""Pictures of logs: the report as one HTML page, and stills."""
