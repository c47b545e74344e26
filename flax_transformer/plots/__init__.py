"""Pictures of arrays, as matplotlib figures (extra `plots`).

Functions take arrays and texts, never a model or a run. A figure is made without pyplot, so that no window opens; in a
notebook it is shown as the value of its cell, after `%matplotlib inline`.
"""
