"""Watch mode: builds again at each change of the sources, and compares each build with the one before."""
