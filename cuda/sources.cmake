# The CUDA backend, once for nvcc and once, as C++, for the emulator.

# Kernels with their adapters.
set(TOST_CUDA_KERNEL_SOURCES
    attention.cu
    batch_norm.cu
    causal_tssa.cu
    causal_tssa_backward.cu
    class_attention.cu
    conv2d.cu
    cross_covariance.cu
    dropout.cu
    elementwise.cu
    elementwise_binary.cu
    embedding.cu
    ista.cu
    layer_norm.cu
    layout.cu
    linear.cu
    loss.cu
    optimizer.cu
    reduce.cu
    residual.cu
    softmax.cu
    tssa.cu
    tssa_backward.cu
)
# Host code.
set(TOST_CUDA_HOST_SOURCES
    backend.cc
    devices.cc
    install.cc
    products.cc
    runtime.cc)
list(TRANSFORM TOST_CUDA_KERNEL_SOURCES PREPEND ${PROJECT_SOURCE_DIR}/cuda/)
list(TRANSFORM TOST_CUDA_HOST_SOURCES PREPEND ${PROJECT_SOURCE_DIR}/cuda/)
