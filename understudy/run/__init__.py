"""One run from config to run folder; the only place that ties the rooms together."""
