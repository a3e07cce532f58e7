// Operands in the order in which bulk copies bring them and wgmma reads them (wgmma.cuh): units of 8 rows of A, or columns of B, by
// 32 of K, four bytes an element. A tile of 32 of K is one contiguous piece of memory.
#pragma once
#include "bulk.cuh"
#include "wgmma.cuh"

constexpr int UNIT = 1024;  // bytes

struct Units {
  uint8_t* first;
  int count;  // of groups of 8 rows or columns, with those that fill up the last tile

  __device__ uint8_t* at(int step, int group) const { return first + (size_t(step) * count + group) * UNIT; }
};

// Tile t of C: blocks that run together shall share rows and columns, so tiles go down 16 rows before they go right.
struct Position {
  int row, column;  // in tiles
  __device__ Position(int t, int rows, int columns) {
    constexpr int RASTER = 16;
    const int band = t / (RASTER * columns), height = min(RASTER, rows - band * RASTER), rest = t - band * RASTER * columns;
    row = band * RASTER + rest % height, column = rest / height;
  }
};
