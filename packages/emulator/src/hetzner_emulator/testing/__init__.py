"""A pytest fixture: an emulated Hetzner Cloud, with a fresh project for each test.

plugin     the module that pytest loads at every start, with few imports
cloud      the object for tests, and its process
process    the emulated API, until its parent ends
"""
