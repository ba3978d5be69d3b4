// Defines the kernels of kernels.hpp, for host devices and, when nvcc compiles it, for CUDA.
#include <apps/llm/kernels.hpp>

namespace llm {

#define LLM_DEFINE_KERNEL(name, Functor, Define)                                                                       \
  Define(name##_f32, Functor<float>) Define(name##_f16, Functor<gpuactors::Float16>)                                   \
      Define(name##_bf16, Functor<gpuactors::BFloat16>)

LLM_DEFINE_KERNEL(embed_tokens, EmbedTokens, GPUACTORS_DEFINE_KERNEL)
LLM_DEFINE_KERNEL(rms_norm, RmsNorm, GPUACTORS_DEFINE_BLOCK_KERNEL)
LLM_DEFINE_KERNEL(rotate_and_keep, RotateAndKeep, GPUACTORS_DEFINE_KERNEL)
LLM_DEFINE_KERNEL(attend, Attend, GPUACTORS_DEFINE_BLOCK_KERNEL)
LLM_DEFINE_KERNEL(silu_times, SiluTimes, GPUACTORS_DEFINE_KERNEL)
GPUACTORS_DEFINE_BLOCK_KERNEL(choose_tokens, ChooseTokens)

} // namespace llm
