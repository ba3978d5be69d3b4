#include "torch_errors.hpp"

#include <c10/util/Exception.h>
#include <fmt/format.h>

#include <algorithm>
#include <new>

namespace torchscript {

using gpuactors::Errc;
using gpuactors::Error;

std::string last_sentence(std::string_view text) {
  // "Traceback of TorchScript ... <source> RuntimeError: mat1 and mat2 shapes cannot be multiplied"
  constexpr std::string_view begin = "\nRuntimeError: ";
  if (const auto at = text.rfind(begin); at != std::string_view::npos)
    text.remove_prefix(at + begin.size());
  std::string line;
  for (const auto c : text) {
    const auto is_space = c == '\n' || c == ' ';
    if (!is_space)
      line += c;
    else if (!line.empty() && line.back() != ' ')
      line += ' ';
  }
  if (!line.empty() && line.back() == ' ')
    line.pop_back();
  return line;
}

std::string text_of(const std::exception& error) {
  if (const auto* of_torch = dynamic_cast<const c10::Error*>(&error); of_torch != nullptr)
    return last_sentence(of_torch->what_without_backtrace());
  return last_sentence(error.what());
}

Error error_of_current(const LeaseMemory& memory, std::string_view title) {
  if (memory.refused())
    return {memory.refused()->code(), fmt::format("{}: {}", title, memory.refused()->message())};
  try {
    throw;
  } catch (const std::bad_alloc&) {
    return {Errc::out_of_memory, fmt::format("{}: this machine has no memory left", title)};
  } catch (const std::exception& error) {
    return {Errc::invalid_argument, fmt::format("{}: {}", title, text_of(error))};
  } catch (...) {
    return {Errc::invalid_argument, fmt::format("{} threw something that is no std::exception", title)};
  }
}

} // namespace torchscript
