// Half precision for the emulator: clang's own type, which converts to and from float as CUDA's does.
#pragma once
typedef _Float16 __half;
