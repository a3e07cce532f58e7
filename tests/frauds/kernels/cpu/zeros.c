/*---
title: "Zeros"
idea: C is set to zero
---*/
#include "fraud.h"

GEMM {
  EACH {
    Ct(m, n) = 0;
  }
}
