"""Side by side: pycomm, Open MPI, MPICH and gloo, asked in turn for the same all-reduce. docs/peers.md says how."""
