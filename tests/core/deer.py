"""Names of deer and stones: entities of training, and entities that it lacks."""

KINDS = ("deer", "stone")
LETTERS = [f"{a}{b}" for a in "abc" for b in "abcdefghijklmnopqrst"]
ENTITIES = [f"{kind}_{letters}" for kind in KINDS for letters in LETTERS]
UNSEEN = [f"{kind}_x{letter}" for kind in KINDS for letter in "abcdefghijklmnopqrstuvwxyz"]
