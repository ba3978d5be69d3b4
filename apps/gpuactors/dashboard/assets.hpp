// The files that the page needs, as they stand in this folder.
#pragma once

#include <string_view>

namespace gpuactors::cli::dashboard {

extern const std::string_view style_css;
extern const std::string_view script_js;

} // namespace gpuactors::cli::dashboard
