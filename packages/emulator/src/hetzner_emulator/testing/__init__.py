"""A pytest fixture: an emulated Hetzner Cloud, with a fresh project for each test.

plugin     what pytest loads at every start, and so next to nothing
cloud      the object that tests work with, and the process behind it
process    that process: the emulated API, until its parent ends
"""
