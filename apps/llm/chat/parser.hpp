// Reads the tags of a template.
#pragma once

#include <apps/llm/chat/syntax.hpp>

#include <string_view>

namespace llm::chat {

/// @param source is text. @returns an error that names line and construct for what is no template, or one with what is
/// unknown here. The places of variables are still to be found (scopes.hpp).
Result<Program> read_program(std::string_view source);

} // namespace llm::chat
