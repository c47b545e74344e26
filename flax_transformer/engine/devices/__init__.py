"""Devices and processes: pmap, meshes, shardings, several hosts."""
