"""The members of the API (members.toml)."""
import os
import tomllib

with open(os.path.join(os.path.dirname(os.path.abspath(__file__)), "members.toml"), "rb") as file:
    # Name and description, by class.
    MEMBERS = tomllib.load(file)
