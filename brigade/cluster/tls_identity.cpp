#include <openssl/bio.h>
#include <openssl/ec.h>
#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/rand.h>
#include <openssl/x509.h>
#include <openssl/x509v3.h>

#include <chrono>
#include <cstdint>
#include <ctime>

#include "brigade/base/error.h"
#include "brigade/base/handles.h"
#include "brigade/base/strings.h"
#include "brigade/cluster/cluster_key.h"

namespace brigade::cluster {
namespace {

// Fixed dates: hosts with different clocks must accept each other, and every member has to make the
// same authority.
constexpr const char* kNotBefore = "20200101000000Z";
constexpr const char* kNotAfter = "21200101000000Z";
constexpr std::chrono::sys_days kFirstDay = std::chrono::January / 1 / 2020;
constexpr std::chrono::sys_days kLastDay = std::chrono::January / 1 / 2120;

using Key = base::Handle<EVP_PKEY, EVP_PKEY_free>;
using Certificate = base::Handle<X509, X509_free>;
using Extension = base::Handle<X509_EXTENSION, X509_EXTENSION_free>;
using Number = base::Handle<BIGNUM, BN_free>;
using Memory = base::Handle<BIO, BIO_free_all>;

void check_tls(bool done, std::string_view what) {
  if (!done) throw Error(ErrorCode::kInternal, "libcrypto fails: ", what, ".");
}

// Ed25519 signs the same bytes in the same way each time, so all members' authorities are equal.
Key authority_key(const ClusterKey& key) {
  const auto seed = key.derive("tls ca");
  Key made(EVP_PKEY_new_raw_private_key(EVP_PKEY_ED25519, nullptr, seed.data(), seed.size()));
  check_tls(made != nullptr, "the authority's key");
  return made;
}

Key new_key() {
  Key made(EVP_EC_gen("P-256"));
  check_tls(made != nullptr, "a new key");
  return made;
}

enum class Serial { kOne, kRandom };

void set_serial(X509& certificate, Serial serial) {
  if (serial == Serial::kOne) {
    check_tls(ASN1_INTEGER_set(X509_get_serialNumber(&certificate), 1) == 1, "a serial number");
    return;
  }
  const Number number(BN_new());
  constexpr int kBits = 127;  // positive in the 16 bytes it takes
  check_tls(number && BN_rand(number.get(), kBits, BN_RAND_TOP_ONE, BN_RAND_BOTTOM_ANY) == 1 &&
                BN_to_ASN1_INTEGER(number.get(), X509_get_serialNumber(&certificate)) != nullptr,
            "a serial number");
}

void set_common_name(X509_NAME* name, const char* text) {
  check_tls(
      X509_NAME_add_entry_by_txt(name, "CN", MBSTRING_ASC,
                                 reinterpret_cast<const unsigned char*>(text), -1, -1, 0) == 1,
      "a name");
}

Certificate blank(const char* name, EVP_PKEY& key, Serial serial) {
  Certificate made(X509_new());
  check_tls(made && X509_set_version(made.get(), X509_VERSION_3) == 1, "a certificate");
  set_serial(*made, serial);
  set_common_name(X509_get_subject_name(made.get()), name);
  check_tls(ASN1_TIME_set_string(X509_getm_notBefore(made.get()), kNotBefore) == 1 &&
                ASN1_TIME_set_string_X509(X509_getm_notAfter(made.get()), kNotAfter) == 1,
            "a certificate's dates");
  check_tls(X509_set_pubkey(made.get(), &key) == 1, "a certificate's key");
  return made;
}

void add_extension(X509& certificate, X509& issuer, int kind, const char* value) {
  X509V3_CTX context;
  X509V3_set_ctx(&context, &issuer, &certificate, nullptr, nullptr, 0);
  const Extension made(X509V3_EXT_conf_nid(nullptr, &context, kind, value));
  check_tls(made && X509_add_ext(&certificate, made.get(), -1) == 1, "a certificate's extension");
}

Certificate make_authority(EVP_PKEY& key) {
  Certificate made = blank("Brigade cluster authority", key, Serial::kOne);
  set_common_name(X509_get_issuer_name(made.get()), "Brigade cluster authority");
  add_extension(*made, *made, NID_basic_constraints, "critical,CA:TRUE,pathlen:0");
  add_extension(*made, *made, NID_key_usage, "critical,keyCertSign,cRLSign");
  add_extension(*made, *made, NID_subject_key_identifier, "hash");
  check_tls(X509_sign(made.get(), &key, nullptr) > 0, "the authority's signature");
  return made;
}

Certificate make_member(EVP_PKEY& key, X509& authority, EVP_PKEY& authority_key) {
  Certificate made = blank(kTlsName, key, Serial::kRandom);
  check_tls(X509_set_issuer_name(made.get(), X509_get_subject_name(&authority)) == 1, "an issuer");
  add_extension(*made, authority, NID_basic_constraints, "critical,CA:FALSE");
  add_extension(*made, authority, NID_key_usage, "critical,digitalSignature");
  add_extension(*made, authority, NID_ext_key_usage, "serverAuth,clientAuth");
  const std::string name = base::str_cat("DNS:", kTlsName);
  add_extension(*made, authority, NID_subject_alt_name, name.c_str());
  add_extension(*made, authority, NID_subject_key_identifier, "hash");
  add_extension(*made, authority, NID_authority_key_identifier, "keyid:always");
  check_tls(X509_sign(made.get(), &authority_key, nullptr) > 0, "a member's signature");
  return made;
}

template <class Write>
std::string as_pem(const Write& write) {
  const Memory memory(BIO_new(BIO_s_mem()));
  check_tls(memory && write(memory.get()) == 1, "PEM");
  char* text = nullptr;
  const long size = BIO_get_mem_data(memory.get(), &text);
  return {text, static_cast<std::size_t>(size)};
}

std::string pem_of(X509& certificate) {
  return as_pem([&](BIO* bio) { return PEM_write_bio_X509(bio, &certificate); });
}

std::string pem_of(EVP_PKEY& key) {
  return as_pem([&](BIO* bio) {
    return PEM_write_bio_PKCS8PrivateKey(bio, &key, nullptr, nullptr, 0, nullptr, nullptr);
  });
}

std::string as_text(std::chrono::system_clock::time_point time) {
  const std::time_t seconds = std::chrono::system_clock::to_time_t(time);
  std::tm parts{};
  char text[64];
  const bool is_known = gmtime_r(&seconds, &parts) != nullptr &&
                        std::strftime(text, sizeof text, "%Y-%m-%d %H:%M:%S UTC", &parts) > 0;
  return is_known ? text : base::str_cat(std::int64_t{seconds}, " s since 1970");
}

// Otherwise no handshake could succeed, and both sides would report a wrong key.
void check_clock(std::chrono::system_clock::time_point now) {
  if (now >= kFirstDay && now < kLastDay) return;
  throw Error(ErrorCode::kFailedPrecondition, "This machine's clock is far off: it says ",
              as_text(now),
              ", and the certificates that are made from a cluster key hold from 2020 to 2119. Set "
              "the clock; the key may be right.");
}

}  // namespace

TlsIdentity make_tls_identity(const ClusterKey& key, std::chrono::system_clock::time_point now) {
  check_clock(now);
  const Key root = authority_key(key);
  const Certificate authority = make_authority(*root);
  const Key own = new_key();
  const Certificate certificate = make_member(*own, *authority, *root);
  return {pem_of(*authority), pem_of(*certificate), pem_of(*own)};
}

}  // namespace brigade::cluster
