"""The commands: each takes its arguments to the story and its results to a report. Heavy imports stand inside."""
