//! The names of every converter of the language, to distinguish one without a row from a typing mistake.

/// Sorted.
#[rustfmt::skip]
pub(super) const NAMES: &[&str] = &[
    "51d.single", "add", "add_item", "aes_cbc_dec", "aes_cbc_enc", "aes_gcm_dec", "aes_gcm_enc", "and",
    "b64dec", "base2", "base64", "be2dec", "be2hex", "bool", "bytes", "capture-req", "capture-res", "concat",
    "cpl", "crc32", "crc32c", "cut_crlf", "da-csv-conv", "date", "debug", "digest", "div", "djb2", "eth.data",
    "eth.dst", "eth.hdr", "eth.proto", "eth.src", "eth.vlan", "even", "fe_exists", "field", "fix_is_valid",
    "fix_tag_value", "has_ctl", "hex", "hex2i", "hmac", "host_only", "htonl", "http_date", "iif", "in_table",
    "ip.data", "ip.df", "ip.dst", "ip.fp", "ip.hdr", "ip.proto", "ip.src", "ip.tos", "ip.ttl", "ip.ver",
    "ipmask", "json", "json_query", "jwt_decrypt_cert", "jwt_decrypt_jwk", "jwt_decrypt_secret",
    "jwt_header_query", "jwt_payload_query", "jwt_verify", "jwt_verify_cert", "language", "le2dec", "length",
    "lower", "ltime", "ltrim", "map", "map_beg", "map_beg_int", "map_beg_ip", "map_beg_key", "map_dir",
    "map_dir_int", "map_dir_ip", "map_dir_key", "map_dom", "map_dom_int", "map_dom_ip", "map_dom_key",
    "map_end", "map_end_int", "map_end_ip", "map_end_key", "map_int", "map_int_int", "map_int_ip",
    "map_int_key", "map_ip", "map_ip_int", "map_ip_ip", "map_ip_key", "map_reg", "map_reg_int", "map_reg_ip",
    "map_reg_key", "map_regm", "map_str", "map_str_int", "map_str_ip", "map_str_key", "map_sub", "map_sub_int",
    "map_sub_ip", "map_sub_key", "mod", "mqtt_field_value", "mqtt_is_valid", "ms_ltime", "ms_utime", "mul",
    "nbsrv", "neg", "not", "odd", "or", "param", "port_only", "protobuf", "regsub", "reverse", "reverse_dom",
    "rfc7239_field", "rfc7239_is_valid", "rfc7239_n2nn", "rfc7239_n2np", "rfc7239_nn", "rfc7239_np", "rtrim",
    "sdbm", "secure_memcmp", "set-var", "sha1", "sha2", "srv_is_up", "srv_queue", "strcmp", "sub",
    "table_bytes_in_rate", "table_bytes_out_rate", "table_clr_gpc", "table_clr_gpc0", "table_clr_gpc1",
    "table_conn_cnt", "table_conn_cur", "table_conn_rate", "table_expire", "table_glitch_cnt",
    "table_glitch_rate", "table_gpc", "table_gpc0", "table_gpc0_rate", "table_gpc1", "table_gpc1_rate",
    "table_gpc_rate", "table_gpt", "table_gpt0", "table_http_err_cnt", "table_http_err_rate",
    "table_http_fail_cnt", "table_http_fail_rate", "table_http_req_cnt", "table_http_req_rate", "table_idle",
    "table_inc_gpc", "table_inc_gpc0", "table_inc_gpc1", "table_kbytes_in", "table_kbytes_out",
    "table_server_id", "table_sess_cnt", "table_sess_rate", "table_trackers", "tcp.dst", "tcp.flags",
    "tcp.options.mss", "tcp.options.sack", "tcp.options.tsopt", "tcp.options.tsval", "tcp.options.wscale",
    "tcp.options.wsopt", "tcp.options_list", "tcp.seq", "tcp.src", "tcp.win", "ub64dec", "ub64enc", "ungrpc",
    "unset-var", "upper", "url_dec", "url_enc", "us_ltime", "us_utime", "utime", "when", "word", "wt6",
    "x509_v_err_str", "xor", "xxh3", "xxh32", "xxh64",
];

#[cfg(test)]
mod tests {
    #[test]
    fn known_converter_names_are_sorted() {
        assert!(super::NAMES.is_sorted());
    }
}
