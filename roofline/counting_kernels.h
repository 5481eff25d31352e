// The counting device's kernels, one for every slot of ops/.
#ifndef TOST_ROOFLINE_COUNTING_KERNELS_H_
#define TOST_ROOFLINE_COUNTING_KERNELS_H_

namespace tost::roofline {

// Called once, by CountingDevice().
void InstallCountingKernels();

// The parts of it, one per file.
void InstallFusedCounts();
void InstallPrimitiveCounts();

}  // namespace tost::roofline

#endif  // TOST_ROOFLINE_COUNTING_KERNELS_H_
