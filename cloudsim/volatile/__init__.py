"""Volatile resources: how many units are idle (``availability``, from spot prices; ``synthetic``), who loses
them when they are needed back (``managers``), what users are told of it (``information``), what they aim at
then (``targeting``), and what that is worth (``study``).
"""
