"""The verb ``whatif``: one run replayed under other settings of its allocator, and what no setting can beat."""
