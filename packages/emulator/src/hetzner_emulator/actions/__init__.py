"""Changes that go on after the answer: what they do, how long they take, whom they tell."""
