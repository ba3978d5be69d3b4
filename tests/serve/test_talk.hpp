// A generative model for tests of the fronts, whose replies come as its requests say.
#pragma once

#include <apps/serve/service.hpp>

#include <cstddef>
#include <memory>
#include <mutex>

namespace serve::test {

/// What goes on in all talks.
struct TalkCounts {
  std::mutex mutex;
  /// Those that hold their next reply back.
  std::size_t held = 0;
  std::size_t cancelled = 0;
  /// Replies that were asked for.
  std::size_t replies = 0;
};

/// What the model says of itself: BYTES "text" [1] to BYTES "text" [1], INT32 "numbers" [-1] and FP32 "score" [1].
[[nodiscard]] ModelDescription describe_talk();

/// Begins one. Its replies are the characters of the text, with its place among the numbers; by its parameters:
///   bytes (int)      each reply has so many letters instead
///   times (int)      so many replies
///   hold_after (int) after so many, no reply comes until the client goes
///   fail_after (int) after so many, an error
///   score (bool)     replies have one, too
[[nodiscard]] std::shared_ptr<Service::Replies> begin_talk(InferRequest request, std::shared_ptr<TalkCounts> counts);

} // namespace serve::test
