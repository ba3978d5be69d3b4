// For tests of the measuring programs themselves.
#pragma once

namespace gpuactors::gpu {

/// Lets a fake CUDA driver find the kernels; nothing happens with the real one.
void show_kernels_to_fake_driver();

} // namespace gpuactors::gpu
