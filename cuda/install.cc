#include "cuda/install.h"

#include "autograd/device.h"
#include "cuda/runtime.h"

namespace tost::cuda {

// The table of contents of the CUDA backend. An op whose kernel is not listed fails at its first
// use, by name.
void InstallCuda(int index) {
  InstallRuntime(DeviceType::kCuda, MakeRuntime(index));
  InstallAttentionKernels();
  InstallBatchNormKernels();
  InstallBinaryKernels();
  InstallCausalTssaBackwardKernels();
  InstallCausalTssaKernels();
  InstallClassAttentionKernels();
  InstallConv2dKernels();
  InstallCrossCovarianceKernels();
  InstallDropoutKernels();
  InstallElementwiseKernels();
  InstallEmbeddingKernels();
  InstallIstaKernels();
  InstallLayerNormKernels();
  InstallLayoutKernels();
  InstallLinearKernels();
  InstallLossKernels();
  InstallOptimizerKernels();
  InstallProductKernels();
  InstallReduceKernels();
  InstallResidualKernels();
  InstallSoftmaxKernels();
  InstallTssaBackwardKernels();
  InstallTssaKernels();
}

}  // namespace tost::cuda
