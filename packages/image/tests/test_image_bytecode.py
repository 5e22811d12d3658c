import marshal

from image import compile_here

SOURCE = b'''
def an_outer_function(an_argument):
    class AnInnerClass:
        """Some words."""
        a_field = ("a constant, no name", "a_constant_like_a_name", 1.5, frozenset({"x y", "a_name"}))
        def a_method(self):
            return lambda: an_argument
    return AnInnerClass
'''


def make() -> bytes:
    return compile_here.compiled("opt/x.py", SOURCE, docstrings=True)


def test_it_still_does_what_the_source_says() -> None:
    space: dict[str, object] = {}
    exec(marshal.loads(make()[16:]), space)
    made = space["an_outer_function"](7)
    assert made.__qualname__ == "an_outer_function.<locals>.AnInnerClass"
    assert made.__doc__ == "Some words."
    assert made.a_field == ("a constant, no name", "a_constant_like_a_name", 1.5, {"x y", "a_name"})
    assert made().a_method()() == 7
    assert b"Some words." not in compile_here.compiled("opt/x.py", SOURCE, docstrings=False)
