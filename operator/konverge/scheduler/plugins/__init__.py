"""The built-in plugins, one a module. Pure: a pod and the nodes flow in, verdicts and scores flow out."""
