#include "file_kind.hpp"

#include "command_line.hpp"

#include <elf.h>
#include <fmt/format.h>
#include <link.h>

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <optional>
#include <string_view>
#include <system_error>

namespace gpuactors::cli {

namespace {

/// Bounds for numbers in the file, which may be anything; far above those of any real one.
constexpr std::size_t most_headers = 4'096;
constexpr std::size_t most_entries = 65'536;

/// Reads a part of a file; nothing if it is not all there.
template <class Part>
std::optional<Part> read_at(std::istream& file, std::uint64_t offset) {
  Part part{};
  file.clear();
  file.seekg(static_cast<std::streamoff>(offset));
  file.read(reinterpret_cast<char*>(&part), sizeof(part));
  return file ? std::optional{part} : std::nullopt;
}

/// Whether the dynamic section says that the file is a program at any address. The loader goes by that, too.
bool says_program(std::istream& file, const ElfW(Phdr) & section) {
  const auto count = std::min<std::size_t>(section.p_filesz / sizeof(ElfW(Dyn)), most_entries);
  for (std::size_t i = 0; i < count; ++i) {
    const auto entry = read_at<ElfW(Dyn)>(file, section.p_offset + i * sizeof(ElfW(Dyn)));
    if (!entry || entry->d_tag == DT_NULL)
      return false;
    if (entry->d_tag == DT_FLAGS_1)
      return (entry->d_un.d_val & DF_1_PIE) != 0;
  }
  return false;
}

/// The kind of a file that may be at any address: most programs, and all shared libraries.
FileKind kind_of_movable(std::istream& file, const ElfW(Ehdr) & head) {
  bool runs = false;
  for (std::size_t i = 0; i < std::min<std::size_t>(head.e_phnum, most_headers); ++i) {
    const auto header = read_at<ElfW(Phdr)>(file, head.e_phoff + i * sizeof(ElfW(Phdr)));
    if (!header)
      return FileKind::other;
    if (header->p_type == PT_DYNAMIC && says_program(file, *header))
      return FileKind::program;
    runs = runs || header->p_type == PT_INTERP;
  }
  // A library that names an interpreter can be loaded and run, as libc itself.
  return runs ? FileKind::other : FileKind::library;
}

} // namespace

FileKind kind_of(const std::string& file) {
  // Others, such as a pipe, would keep whoever opens them waiting.
  std::error_code error;
  if (!std::filesystem::is_regular_file(file, error))
    return FileKind::other;
  std::ifstream in{file, std::ios::binary};
  constexpr std::string_view script = "#!";
  char begin[script.size()]{};
  if (in.read(begin, sizeof(begin)) && std::string_view{begin, sizeof(begin)} == script)
    return FileKind::program;
  const auto head = read_at<ElfW(Ehdr)>(in, 0);
  constexpr auto word = sizeof(void*) == sizeof(std::uint64_t) ? ELFCLASS64 : ELFCLASS32;
  if (!head || std::memcmp(head->e_ident, ELFMAG, SELFMAG) != 0 || head->e_ident[EI_CLASS] != word)
    return FileKind::other;
  if (head->e_type == ET_EXEC)
    return FileKind::program;
  return head->e_type == ET_DYN && head->e_phentsize == sizeof(ElfW(Phdr)) ? kind_of_movable(in, *head)
                                                                           : FileKind::other;
}

Result<void> check_programs_and_plugins(const std::vector<std::string>& programs,
                                        const std::vector<std::string>& plugins) {
  for (const auto& file : plugins)
    if (kind_of(file) == FileKind::program)
      return fail(
          Errc::invalid_argument,
          fmt::format("--plugin {0} is a program, not a shared library: use --program {0}", shell_quoted(file)));
  for (const auto& file : programs)
    if (kind_of(file) == FileKind::library)
      return fail(
          Errc::invalid_argument,
          fmt::format("--program {0} is a shared library, not a program: use --plugin {0}", shell_quoted(file)));
  return {};
}

} // namespace gpuactors::cli
