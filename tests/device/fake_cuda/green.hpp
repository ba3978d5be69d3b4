// Green contexts of the fake driver: sets of SMs on paper, and the rules about them.
#pragma once

#include <cuda.h>

namespace gpuactors::fake {

/// SMs of the one device, as those of an H100: 16 groups of 8, and 4 that fit in no group.
inline constexpr unsigned sm_count = 132;
inline constexpr unsigned group_sms = 8;

CUresult device_get_dev_resource(CUdevice device, CUdevResource* resource, CUdevResourceType type);
CUresult dev_sm_resource_split(CUdevResource* result, unsigned* count, const CUdevResource* input,
                               CUdevResource* remaining, unsigned flags, unsigned least);
CUresult dev_resource_generate_desc(CUdevResourceDesc* description, CUdevResource* resources, unsigned count);
CUresult green_ctx_create(CUgreenCtx* context, CUdevResourceDesc description, CUdevice device, unsigned flags);
CUresult green_ctx_destroy(CUgreenCtx context);
CUresult green_ctx_get_dev_resource(CUgreenCtx context, CUdevResource* resource, CUdevResourceType type);
CUresult ctx_from_green_ctx(CUcontext* current, CUgreenCtx context);
CUresult green_ctx_stream_create(CUstream* stream, CUgreenCtx context, unsigned flags, int priority);

/// To be told of each stream that goes.
void forget_stream(CUstream stream);

/// Counts work that is started on `stream`.
void note_work(CUstream stream);

/// The green context of a stream; null: of the primary one.
const void* green_of(CUstream stream);

/// The number of the device that a green context is of.
int device_of_green(const void* context);

/// SMs that work of `stream` runs on.
unsigned sms_of(CUstream stream);

/// The result that a test wants of the function `api` instead of doing anything; CUDA_SUCCESS: none.
CUresult planned(const char* api);

} // namespace gpuactors::fake

extern "C" {
/// Makes the function of that name fail with this CUresult, without doing anything; 0: no more. "the rest of a split":
/// makes a description fail that has what is left of the SMs when all groups are made.
void fake_cuda_fail(const char* api, int result);
/// How often devices were split.
int fake_cuda_splits();
/// Green contexts that exist.
int fake_cuda_greens();
/// How many there can be; 0: any number.
void fake_cuda_limit_greens(int most);
/// How much work was started since the last call on streams of the primary context, or on those of green contexts.
int fake_cuda_take_work(bool green);
/// The groups of the green context that work was started on last, a bit each; 0: the primary context.
unsigned fake_cuda_last_groups();
}
