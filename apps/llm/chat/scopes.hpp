// Finds out which variable a name means where it stands.
#pragma once

#include <apps/llm/chat/syntax.hpp>

namespace llm::chat {

/// Fills the places, scopes and frames of a program in, by the rules of Jinja's compiler: which are not those of
/// Python, nor of most other languages. Loops, captures, macros and generation blocks have scopes of their own; what
/// they set is set there only, and begins with the value of the scope around, for each run of a loop again. Whether a
/// scope has a variable is decided by what stands anywhere in it, not by what has run.
/// @returns an error that names the line, for what is called and unknown, and for names that mean what is unknown here.
Result<void> find_places(Program& program);

} // namespace llm::chat
