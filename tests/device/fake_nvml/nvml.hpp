// A management library for tests: a machine with two GPUs that are linked, and one that is divided.
#pragma once

#include <cstdint>

namespace gpuactors::fake {

/// In the library's order, which is not CUDA's.
inline constexpr const char* second_uuid = "GPU-01112233-4455-6677-8899-aabbccddeeff";
inline constexpr const char* first_uuid = "GPU-00112233-4455-6677-8899-aabbccddeeff";
inline constexpr const char* divided_uuid = "GPU-02112233-4455-6677-8899-aabbccddeeff";
inline constexpr const char* slice_uuid = "MIG-11111111-4455-6677-8899-aabbccddeeff";
inline constexpr const char* other_slice_uuid = "MIG-22222222-4455-6677-8899-aabbccddeeff";

} // namespace gpuactors::fake

extern "C" {
/// Lets an event of the GPU with that index come.
void fake_nvml_post(int index, std::uint64_t type, std::uint64_t data);
/// From now on each wait for events of the GPU with that index, and of others with it, says that some GPU is lost.
void fake_nvml_fall(int index);
/// Makes every question about the GPU fail with this result; 0: no more.
void fake_nvml_break(int index, int result);
/// Ends the slices of the divided GPU and makes one new, whose handle is that of the first.
void fake_nvml_divide_anew();
}
