// What libtorch throws, as errors of ours.
#pragma once

#include "lease_memory.hpp"

#include <gpuactors/base/error.hpp>

#include <exception>
#include <string>
#include <string_view>

namespace torchscript {

/// Returns the sentence of an error of libtorch, in one line: without the stack and, of errors of TorchScript, without
/// the source around the place.
[[nodiscard]] std::string text_of(const std::exception& error);

/// The same for a text that it has written. Pure.
[[nodiscard]] std::string last_sentence(std::string_view text);

/// Returns the error for the exception that is handled now: `out_of_memory` if an allocation of `memory` was refused,
/// else `invalid_argument`.
[[nodiscard]] gpuactors::Error error_of_current(const LeaseMemory& memory, std::string_view title);

} // namespace torchscript
