/*---
title: "Does nothing"
idea: C is left as it was
---*/
#include "fraud.h"

GEMM {}
