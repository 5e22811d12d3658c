"""The program's process, and the protocols of Pulumi's SDK that it speaks with the engine."""
