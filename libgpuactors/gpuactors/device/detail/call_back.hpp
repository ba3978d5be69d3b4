// call_back: calls what a program gave to Stream::notify, on a thread that the device needs.
#pragma once

#include <gpuactors/base/report_exception.hpp>
#include <gpuactors/base/result.hpp>

#include <functional>
#include <utility>

namespace gpuactors::detail {

/// What the callback throws becomes a line on standard error: the stream, and the thread, go on.
inline void call_back(const std::function<void(Result<void>)>& callback, Result<void> result) noexcept {
  try {
    callback(std::move(result));
  } catch (...) {
    report_exception("Stream::notify");
  }
}

} // namespace gpuactors::detail
