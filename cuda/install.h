// The CUDA device of this process: its runtime and the kernels that fill the slots of ops/.
#ifndef TOST_CUDA_INSTALL_H_
#define TOST_CUDA_INSTALL_H_

namespace tost::cuda {

// Makes device `index` usable as Device{kCuda, index}. Called once, before the first tensor on it.
void InstallCuda(int index);

// One per file of kernels, called by InstallCuda.
void InstallAttentionKernels();
void InstallBatchNormKernels();
void InstallBinaryKernels();
void InstallCausalTssaBackwardKernels();
void InstallCausalTssaKernels();
void InstallClassAttentionKernels();
void InstallConv2dKernels();
void InstallCrossCovarianceKernels();
void InstallDropoutKernels();
void InstallElementwiseKernels();
void InstallEmbeddingKernels();
void InstallIstaKernels();
void InstallLayerNormKernels();
void InstallLayoutKernels();
void InstallLinearKernels();
void InstallLossKernels();
void InstallOptimizerKernels();
void InstallProductKernels();
void InstallReduceKernels();
void InstallResidualKernels();
void InstallSoftmaxKernels();
void InstallTssaBackwardKernels();
void InstallTssaKernels();

}  // namespace tost::cuda

#endif  // TOST_CUDA_INSTALL_H_
