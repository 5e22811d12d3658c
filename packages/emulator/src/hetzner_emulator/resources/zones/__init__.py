"""DNS zones and their record sets. The emulator only stores them: no name server answers from them."""
