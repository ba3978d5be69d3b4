// Draws a timeline as a picture.
#pragma once

#include <iosfwd>
#include <string>
#include <string_view>

namespace gpuactors::plan_detail {

struct Timeline;

/// Escapes a text for XML, including attributes. Characters that XML cannot represent become U+FFFD.
[[nodiscard]] std::string escape_xml(std::string_view text);

/// Draws steps from left to right, a lane for each device, a rectangle for each lease, as high as its share; below, the
/// number of waiting requests. Pure.
void draw_svg(std::ostream& out, const Timeline& timeline);

} // namespace gpuactors::plan_detail
