/* C <- alpha * op(A) * op(B) + beta * C. op(A) is A, M x K, or with TRANS_A the transpose of A, which then lies in memory as K x M. With TRANS_B,
 * B lies there as N x K, and op(B) is its transpose. Rows are lda and ldb elements apart, as they lie. */
#ifndef TRANS_A
#define TRANS_A 0
#define TRANS_B 0
#endif
/* Whether there is a batch of such products. */
#ifndef BATCH
#define BATCH 0
#endif
