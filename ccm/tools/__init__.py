"""Commands for operators: ``plan`` says what would be done, ``lint`` checks annotations."""
