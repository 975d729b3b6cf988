"""`python -m cacheunit_build`: the command line of exactly this interpreter, wherever `cacheunit` may be."""

import sys

if not sys.flags.safe_path:
    del sys.path[0]  # the working folder: a checkout is read, and no module of it imported

from cacheunit_build.cli.entry import main

main()
