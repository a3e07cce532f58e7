// @KERNEL@, @CONFIGURATION@, @TYPE@, compiled for @ARCH@: C <- alpha*A*B + beta*C, row-major.
// Written by `ladder export` of Gemm Ladder. launch.json says where it was measured. Needs C++11, cuda.h of CUDA 12 or later, and -lcuda.
#pragma once
#include <cuda.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <stdexcept>
#include <string>

namespace gemm_ladder {

class @CLASS@ {
 public:
  // Loads the cubin into the current context.
  explicit @CLASS@(const char* cubin) {
    CUdevice device;
    check(cuCtxGetDevice(&device), "cuCtxGetDevice");
    check(cuDeviceGetAttribute(&sm_count_, CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT, device), "cuDeviceGetAttribute");
    check(cuDeviceGetAttribute(&shared_, CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN, device), "cuDeviceGetAttribute");
@CLUSTERS@    check(cuModuleLoad(&module_, cubin), "cuModuleLoad (compiled for @ARCH@)");
  }
  ~@CLASS@() { cuModuleUnload(module_); }
  @CLASS@(const @CLASS@&) = delete;
  @CLASS@& operator=(const @CLASS@&) = delete;

  // Queues one GEMM on a stream of the context. Throws std::invalid_argument if the problem breaks one of the kernel's needs,
  // std::runtime_error if the driver reports an error.
  void operator()(int m_, int n_, int k_, @ACC@ alpha_, CUdeviceptr a_, int lda_, CUdeviceptr b_, int ldb_, @ACC@ beta_,
                  CUdeviceptr c_, int ldc_, @SCALES@CUstream stream_ = nullptr) const {
    expect(m_ >= 1 && n_ >= 1 && k_ >= 1, "M, N and K of at least 1");
    expect(lda_ >= @LDA_ARGUMENT@ && ldb_ >= @LDB_ARGUMENT@ && ldc_ >= n_, "lda >= @LDA@, ldb >= @LDB@ and ldc >= N");
    // doubles hold every whole number up to 2**53
    const double M = m_, N = n_, K = k_, lda = lda_, ldb = ldb_, ldc = ldc_, alpha = alpha_, beta = beta_;
    const double alignment_a = aligned(a_), alignment_b = aligned(b_), alignment_c = aligned(c_);
    const double alignment = aligned(a_ | b_ | c_), sm_count = sm_count_, shared_memory_per_block = shared_;
    const double clusters_of_4 = clusters_;
@NAMES@    unused(M, N, K, lda, ldb, ldc, alpha, beta, alignment, alignment_a, alignment_b, alignment_c, sm_count,
           shared_memory_per_block, clusters_of_4@UNUSED@);
@NEEDS@@WORKSPACE@@MAPS@    void* arguments_[] = {&m_, &n_, &k_, &alpha_, &a_, &lda_, &b_, &ldb_, &beta_, &c_, &ldc_@SCALE_ARGUMENTS@@WORKSPACE_ARGUMENT@@MAP_ARGUMENTS@};
@LAUNCHES@
  }

 private:
  CUmodule module_ = nullptr;
  int sm_count_ = 0, shared_ = 0, clusters_ = 0;

  static void check(CUresult result, const char* what) {
    const char* name = "an unknown error";
    if (result == CUDA_SUCCESS) return;
    cuGetErrorName(result, &name);
    throw std::runtime_error(std::string("@KERNEL@: ") + what + ": " + name);
  }
  static void expect(bool holds, const char* what) {
    if (!holds) throw std::invalid_argument(std::string("@KERNEL@: expected ") + what);
  }
  template <class... Values>
  static void unused(const Values&...) {}

  // The arithmetic of header expressions, which is Python's.
  static double floor_div(double a, double b) { return std::floor(a / b); }
  static double ceil_div(double a, double b) { return std::ceil(a / b); }
  static double mod(double a, double b) { return a - b * std::floor(a / b); }
  static double aligned(CUdeviceptr at) { return static_cast<double>((at | 16) & -(at | 16)); }
  static double whole(double value) {
    expect(value == std::floor(value) && value >= 0 && value < 9007199254740992.0, "a whole number of blocks and bytes");
    return value;
  }

  // How many clusters of four blocks run at once if each block has an SM to itself: the driver's answer for a function whose blocks
  // request the most shared memory. 0 on a GPU without clusters.
  static int clusters_of_four(CUdevice device, int shared) {
    int has_clusters = 0, clusters = 0;
    check(cuDeviceGetAttribute(&has_clusters, CU_DEVICE_ATTRIBUTE_CLUSTER_LAUNCH, device), "cuDeviceGetAttribute");
    if (!has_clusters) return 0;
    CUmodule module;
    CUfunction function;
    CUlaunchAttribute size;
    std::memset(&size, 0, sizeof size);
    size.id = CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION;
    size.value.clusterDim.x = 4, size.value.clusterDim.y = size.value.clusterDim.z = 1;
    const CUlaunchConfig config = {4, 1, 1, 32, 1, 1, static_cast<unsigned>(shared), nullptr, &size, 1};
    check(cuModuleLoadData(&module, ".version 7.8\n.target sm_90\n.address_size 64\n.visible .entry alone() { ret; }\n"),
          "cuModuleLoadData");
    check(cuModuleGetFunction(&function, module, "alone"), "cuModuleGetFunction");
    check(cuFuncSetAttribute(function, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, shared), "cuFuncSetAttribute");
    check(cuOccupancyMaxActiveClusters(&clusters, function, &config), "cuOccupancyMaxActiveClusters");
    check(cuModuleUnload(module), "cuModuleUnload");
    return clusters;
  }

  // Encodes the tensor map of a matrix that begins `offset` bytes behind an address; zeros where a map cannot describe its rows, which a kernel
  // takes for C only.
  static void encode(CUtensorMap& map, bool needed, CUtensorMapDataType type, CUdeviceptr address, double offset, double width, double height,
                     double pitch, double across, double down, double swizzle) {
    const CUdeviceptr at = address + static_cast<CUdeviceptr>(whole(offset));
    std::memset(&map, 0, sizeof map);
    if ((at | static_cast<CUdeviceptr>(whole(pitch))) % 16) return expect(!needed, "rows of A and B that begin at multiples of 16 bytes");
    const cuuint64_t extents[] = {static_cast<cuuint64_t>(whole(width)), static_cast<cuuint64_t>(whole(height))};
    const cuuint64_t pitches[] = {static_cast<cuuint64_t>(pitch)};
    const cuuint32_t box[] = {static_cast<cuuint32_t>(whole(across)), static_cast<cuuint32_t>(whole(down))}, steps[] = {1, 1};
    const CUtensorMapSwizzle swizzles[] = {CU_TENSOR_MAP_SWIZZLE_NONE, CU_TENSOR_MAP_SWIZZLE_32B, CU_TENSOR_MAP_SWIZZLE_64B,
                                           CU_TENSOR_MAP_SWIZZLE_NONE, CU_TENSOR_MAP_SWIZZLE_128B};  // by quarters of 128 bytes
    check(cuTensorMapEncodeTiled(&map, type, 2, reinterpret_cast<void*>(at), extents, pitches, box, steps,
                                 CU_TENSOR_MAP_INTERLEAVE_NONE, swizzles[static_cast<int>(swizzle) / 32], CU_TENSOR_MAP_L2_PROMOTION_L2_128B,
                                 CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE),
          "cuTensorMapEncodeTiled");
  }

  void launch(const char* name, double x, double y, double z, unsigned threads_x, unsigned threads_y, unsigned threads_z,
              double shared, CUstream stream, void** arguments) const {
    const double most = std::max(std::max(x, y), std::max(z, shared));
    expect(whole(x) + whole(y) + whole(z) + whole(shared) >= 0 && most < 2147483648.0, "fewer than 2**31 blocks and bytes");
    CUfunction function;
    check(cuModuleGetFunction(&function, module_, name), "cuModuleGetFunction");
    if (shared > 0) {
      check(cuFuncSetAttribute(function, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, static_cast<int>(shared)),
            "cuFuncSetAttribute");
    }
    check(cuLaunchKernel(function, static_cast<unsigned>(x), static_cast<unsigned>(y), static_cast<unsigned>(z), threads_x,
                         threads_y, threads_z, static_cast<unsigned>(shared), stream, arguments, nullptr),
          "cuLaunchKernel");
  }
};

}  // namespace gemm_ladder
