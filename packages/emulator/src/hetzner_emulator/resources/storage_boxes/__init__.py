"""Storage Boxes, which the emulator refuses."""
