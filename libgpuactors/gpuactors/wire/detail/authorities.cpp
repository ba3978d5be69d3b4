#include "authorities.hpp"

#include <gpuactors/base/limits.hpp>
#include <gpuactors/wire/detail/loaded.hpp>
#include <gpuactors/wire/detail/private_files.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <set>
#include <string>
#include <utility>

namespace gpuactors::detail {

using Path = std::filesystem::path;

namespace {

template <class T>
Result<void> write_all(const Path& file, const std::vector<T>& parts) {
  std::string text;
  for (const auto& part : parts) {
    GPUACTORS_LET(pem, to_pem(*part));
    text += pem;
  }
  return write_file(file, text, Access::all, Existing::replace);
}

void remove_file(const Path& file) {
  std::error_code ignored; // what is left over does no harm, and the next call takes it away
  std::filesystem::remove(file, ignored);
}

/// Puts the list that follows the newest one of `authority` among `lists` in the place of those.
Result<void> renew_list(const Authority& authority, const std::vector<X509*>& added, RevocationLists& lists,
                        WallTime now) {
  auto& certificate = *authority.certificate;
  GPUACTORS_LET(list, make_revocations(list_of(certificate, lists), added, certificate, *authority.key, now));
  std::erase_if(lists, [&](const RevocationList& before) { return is_list_of(*before, certificate); });
  lists.push_back(std::move(list));
  return {};
}

/// There is a list of each authority from the start: `revoked.pem` and `ca.pem` then fit together in whatever order
/// they are copied.
Result<void> add_list(const Authority& authority, RevocationLists& lists, WallTime now) {
  return list_of(*authority.certificate, lists) != nullptr ? Result<void>{} : renew_list(authority, {}, lists, now);
}

/// The key of an authority that is being put in use, from an earlier call or new.
Result<Key> next_key(const Path& folder) {
  const auto file = folder / next_authority_key_file;
  if (!is_there(file)) {
    GPUACTORS_LET(key, make_key());
    GPUACTORS_LET(pem, to_pem(*key));
    GPUACTORS_TRY(write_file(file, pem, Access::owner, Existing::refuse));
  }
  return load_key(file);
}

/// Makes the certificate of `key`, which is to follow that of `old`, unless it is among the authorities already.
Result<void> add_next(Authorities& authorities, EVP_PKEY& key, const CertificateLife& validity,
                      const CertificateInfo& old) {
  const auto of_key = [&](const Certificate& certificate) { return belongs_to(key, *certificate); };
  if (std::any_of(authorities.begin(), authorities.end(), of_key))
    return {};
  if (authorities.size() >= limits::authorities_most)
    return fail(Errc::invalid_argument,
                fmt::format("{} has {} authorities already, and more are not read: take out those "
                            "that nobody needs",
                            old.file.string(), authorities.size()));
  if (validity.until <= old.valid_until)
    return fail(Errc::invalid_argument,
                fmt::format("the new authority would end on {}, and the one that it replaces ends on {}: a longer life "
                            "is expected",
                            to_string(validity.until), to_string(old.valid_until)));
  GPUACTORS_LET(made, make_authority(key, validity));
  authorities.insert(authorities.begin(), std::move(made));
  return {};
}

/// Who has a certificate that is valid now, of another authority than `signer`, and none of that one.
Result<std::set<std::string>> locked_out(const std::vector<CertificateInfo>& issued, X509& signer, WallTime now) {
  std::set<std::string> with_old;
  std::set<std::string> with_new;
  for (const auto& info : issued) {
    if (info.revoked || info.valid_until <= now)
      continue;
    GPUACTORS_LET(certificate, load_certificate(info.file));
    (is_issued_by(*certificate, signer) ? with_new : with_old).insert(info.subject);
  }
  for (const auto& name : with_new)
    with_old.erase(name);
  return with_old;
}

} // namespace

Result<void> write_authorities(const Path& folder, const Authorities& authorities) {
  return write_all(folder / authority_file, authorities);
}

Result<void> write_revocations(const Path& folder, const RevocationLists& lists) {
  return write_all(folder / revoked_file, lists);
}

Result<void> add_revocations(const Path& folder, const std::vector<Certificate>& certificates, WallTime now) {
  GPUACTORS_LET(signers, load_signers(folder));
  GPUACTORS_LET(lists, load_all_revocations(folder / revoked_file));
  std::size_t left = certificates.size();
  for (const auto& signer : signers) {
    std::vector<X509*> added;
    for (const auto& certificate : certificates)
      if (is_issued_by(*certificate, *signer.certificate))
        added.push_back(certificate.get());
    if (added.empty())
      continue;
    left -= added.size();
    GPUACTORS_TRY(renew_list(signer, added, lists, now));
  }
  if (left > 0)
    return fail(
        Errc::not_found,
        fmt::format("{} of the certificates are of an authority whose key is not in {}: revoke them where it is", left,
                    folder.string()));
  return write_revocations(folder, lists);
}

Result<CertificateInfo> replace_authority(const Path& folder, const CertificateLife& validity, WallTime now) {
  const auto old_path = folder / old_authority_key_file;
  const auto next_path = folder / next_authority_key_file;
  if (is_there(old_path) && !is_there(next_path))
    return fail(Errc::already_exists,
                fmt::format("an authority is being replaced in {0}: before the next one, end that "
                            "with gpuactors certs retire --certs {0}",
                            folder.string()));
  GPUACTORS_LET(signers, load_signers(folder));
  GPUACTORS_LET(authorities, load_authorities(folder / authority_file));
  GPUACTORS_LET(lists, load_all_revocations(folder / revoked_file));
  const auto old = describe(*signers.front().certificate, folder / authority_file);
  // A key without a certificate would stay, if that cannot be.
  const bool interrupted = is_there(next_path);
  GPUACTORS_LET(key, next_key(folder));
  if (auto added = add_next(authorities, *key, validity, old); !added) {
    if (!interrupted)
      remove_file(next_path);
    return fail(added.error());
  }
  const auto next = std::find_if(authorities.begin(), authorities.end(),
                                 [&](const Certificate& each) { return belongs_to(*key, *each); });
  const auto made = describe(**next, folder / authority_file);
  GPUACTORS_TRY(write_authorities(folder, authorities));
  GPUACTORS_LET(pem, to_pem(*key));
  const Authority authority{std::move(*next), std::move(key)};
  GPUACTORS_TRY(add_list(authority, lists, now));
  for (const auto& signer : signers)
    GPUACTORS_TRY(add_list(signer, lists, now));
  GPUACTORS_TRY(write_revocations(folder, lists));
  // An interrupted call may have got this far already: then the key in use is the new one.
  GPUACTORS_LET(old_key, read_file(folder / authority_key_file, Access::owner));
  if (old_key != pem)
    GPUACTORS_TRY(write_file(old_path, old_key, Access::owner, Existing::replace));
  GPUACTORS_TRY(write_file(folder / authority_key_file, pem, Access::owner, Existing::replace));
  remove_file(next_path);
  return made;
}

Result<std::optional<CertificateInfo>> retire_authority(const Path& folder, const std::vector<CertificateInfo>& issued,
                                                        bool force, WallTime now) {
  const auto authority_path = folder / authority_file;
  const auto old_path = folder / old_authority_key_file;
  if (is_there(folder / next_authority_key_file))
    return fail(Errc::invalid_argument, fmt::format("the last replacement of an authority was interrupted: complete it "
                                                    "with gpuactors certs replace --certs {}",
                                                    folder.string()));
  if (!is_there(old_path))
    return fail(Errc::not_found,
                fmt::format("no authority is being replaced in {}: gpuactors certs replace makes another "
                            "one beside it",
                            folder.string()));
  GPUACTORS_LET(signers, load_signers(folder));
  GPUACTORS_LET(authorities, load_authorities(authority_path));
  std::optional<CertificateInfo> retired;
  // Without the old one among them, an earlier call has got past this, and was interrupted.
  if (signers.size() > 1) {
    GPUACTORS_LET(names, locked_out(issued, *signers.front().certificate, now));
    if (!names.empty() && !force)
      return fail(Errc::invalid_argument,
                  fmt::format("{} have certificates of the old authority and none of the new one ({}): issue them with "
                              "gpuactors certs issue, or revoke the old ones",
                              names.size(), fmt::join(names, ", ")));
    auto& old = *signers.back().certificate;
    retired = describe(old, authority_path);
    std::erase_if(authorities, [&](const Certificate& each) { return X509_cmp(each.get(), &old) == 0; });
    // Its list stays in `revoked.pem`: a machine that still has it in `ca.pem` must not trust those that it had
    // revoked.
    GPUACTORS_TRY(write_authorities(folder, authorities));
  }
  for (const auto& info : issued)
    if (const auto certificate = load_certificate(info.file);
        certificate && issuer_of(**certificate, authorities) == nullptr)
      remove_file(info.file);
  remove_file(old_path);
  return retired;
}

} // namespace gpuactors::detail
