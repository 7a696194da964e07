//! What one thread owns: buffers, pools, slabs with generation keys, ordered trees.
