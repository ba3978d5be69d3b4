// What is said when it is used up.
#include <apps/llm/chat/budget.hpp>

#include <fmt/format.h>

namespace llm::chat {

gpuactors::Failure wrong(std::string what) {
  return gpuactors::fail(Errc::invalid_argument, std::move(what));
}

gpuactors::Failure unknown(std::string what) {
  return gpuactors::fail(Errc::unsupported, std::move(what));
}

Result<void> Budget::take(std::uint64_t bytes) {
  if (bytes > bytes_left_)
    return wrong(fmt::format("makes more than {} bytes of values, which is the limit", bytes_));
  bytes_left_ -= bytes;
  return look(bytes);
}

Result<void> Budget::too_many_steps() const {
  return wrong(fmt::format("takes more than {} steps, which is the limit", steps_));
}

} // namespace llm::chat
