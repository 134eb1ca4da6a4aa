"""Applications: the command line, the main job, notebooks and the pytest plugin, over everything below."""
