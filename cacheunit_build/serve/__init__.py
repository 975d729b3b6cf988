"""The live page of `watch --serve`: what it shows as JSON, the application that serves it, and the files of the page.

Nothing here listens, writes or looks at a clock: the command line hands in each new state, and runs the application.
"""
