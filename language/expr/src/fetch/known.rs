//! The names of every fetch of the language, so that one without a row is told from a typing mistake.

/// True if the language has a fetch of that name, whether or not there is a row for it.
pub(crate) fn is_known(name: &str) -> bool {
    NAMES.binary_search(&name).is_ok()
}

/// Sorted.
#[rustfmt::skip]
pub(super) const NAMES: &[&str] = &[
    "51d.all", "accept_date", "acl", "act_conn", "always_false", "always_true", "avg_queue", "base", "base32",
    "base32+src", "baseq", "bc.timer.connect", "bc_be_queue", "bc_dst", "bc_dst_port", "bc_err", "bc_err_name",
    "bc_err_str", "bc_glitches", "bc_http_major", "bc_nb_streams", "bc_reused", "bc_rtt", "bc_rttvar",
    "bc_settings_streams_limit", "bc_src", "bc_src_port", "bc_srv_queue", "be_conn", "be_conn_free",
    "be_connect_timeout", "be_id", "be_max_retries", "be_name", "be_queue_timeout", "be_server_timeout",
    "be_sess_rate", "be_tarpit_timeout", "be_tunnel_timeout", "bin", "bool", "bs.aborted", "bs.debug_str",
    "bs.id", "bs.rst_code", "bytes_in", "bytes_out", "capture.req.hdr", "capture.req.method",
    "capture.req.uri", "capture.req.ver", "capture.res.hdr", "capture.res.ver", "connslots", "cook",
    "cook_cnt", "cook_val", "cookie", "cpu_calls", "cpu_ns_avg", "cpu_ns_tot", "cpu_usage_grp",
    "cpu_usage_proc", "cpu_usage_thr", "cur_client_timeout", "cur_connect_timeout", "cur_max_retries",
    "cur_queue_timeout", "cur_server_timeout", "cur_tarpit_timeout", "cur_tunnel_timeout", "date", "date_us",
    "distcc_body", "distcc_param", "dst", "dst_conn", "dst_is_local", "dst_port", "dump_all_vars", "env",
    "fc.timer.handshake", "fc.timer.total", "fc_dst", "fc_dst_is_local", "fc_dst_port", "fc_err",
    "fc_err_name", "fc_err_str", "fc_fackets", "fc_glitches", "fc_http_major", "fc_lost", "fc_nb_streams",
    "fc_pp_authority", "fc_pp_tlv", "fc_pp_unique_id", "fc_rcvd_proxy", "fc_reordering", "fc_retrans",
    "fc_rtt", "fc_rttvar", "fc_sacked", "fc_saved_syn", "fc_settings_streams_limit", "fc_src",
    "fc_src_is_local", "fc_src_port", "fc_unacked", "fcgi.docroot", "fcgi.index", "fe_client_timeout",
    "fe_conn", "fe_defbe", "fe_id", "fe_name", "fe_req_rate", "fe_sess_rate", "fe_tarpit_timeout",
    "fs.aborted", "fs.debug_str", "fs.id", "fs.rst_code", "hdr", "hdr_cnt", "hdr_ip", "hdr_val", "hostname",
    "http_auth", "http_auth_bearer", "http_auth_group", "http_auth_pass", "http_auth_type", "http_auth_user",
    "http_first_req", "int", "internal.htx.data", "internal.htx.free", "internal.htx.free_data",
    "internal.htx.has_eom", "internal.htx.nbblks", "internal.htx.size", "internal.htx.used",
    "internal.htx_blk.data", "internal.htx_blk.hdrname", "internal.htx_blk.hdrval", "internal.htx_blk.size",
    "internal.htx_blk.start_line", "internal.htx_blk.type", "internal.strm.is_htx", "ipv4", "ipv6",
    "last_entity", "last_rule_file", "last_rule_line", "lat_ns_avg", "lat_ns_tot", "meth", "method", "nbproc",
    "nbsrv", "path", "pathq", "payload", "payload_lv", "pid", "prio_class", "prio_offset", "proc", "query",
    "queue", "quic_enabled", "rand", "rdp_cookie", "rdp_cookie_cnt", "rep_ssl_hello_type", "req.body",
    "req.body_len", "req.body_param", "req.body_size", "req.bytes_in", "req.bytes_out", "req.cook",
    "req.cook_cnt", "req.cook_names", "req.cook_val", "req.fhdr", "req.fhdr_cnt", "req.hdr", "req.hdr_cnt",
    "req.hdr_ip", "req.hdr_names", "req.hdr_val", "req.hdrs", "req.hdrs_bin", "req.len", "req.payload",
    "req.payload_lv", "req.proto_http", "req.rdp_cookie", "req.rdp_cookie_cnt", "req.ssl_alpn",
    "req.ssl_cipherlist", "req.ssl_ec_ext", "req.ssl_hello_type", "req.ssl_keyshare_groups", "req.ssl_sigalgs",
    "req.ssl_sni", "req.ssl_st_ext", "req.ssl_supported_groups", "req.ssl_ver", "req.timer.hdr",
    "req.timer.idle", "req.timer.queue", "req.timer.tq", "req.ver", "req_len", "req_proto_http",
    "req_ssl_hello_type", "req_ssl_sni", "req_ssl_ver", "req_ver", "request_date", "res.body", "res.body_len",
    "res.body_size", "res.bytes_in", "res.bytes_out", "res.cache_hit", "res.cache_name", "res.comp",
    "res.comp_algo", "res.cook", "res.cook_cnt", "res.cook_names", "res.cook_val", "res.fhdr", "res.fhdr_cnt",
    "res.hdr", "res.hdr_cnt", "res.hdr_ip", "res.hdr_names", "res.hdr_val", "res.hdrs", "res.hdrs_bin",
    "res.len", "res.payload", "res.payload_lv", "res.ssl_hello_type", "res.timer.data", "res.timer.hdr",
    "res.ver", "resp_ver", "sc0_bytes_in_rate", "sc0_bytes_out_rate", "sc0_clr_gpc0", "sc0_clr_gpc1",
    "sc0_conn_cnt", "sc0_conn_cur", "sc0_conn_rate", "sc0_get_gpc0", "sc0_get_gpc1", "sc0_get_gpt0",
    "sc0_glitch_cnt", "sc0_glitch_rate", "sc0_gpc0_rate", "sc0_gpc1_rate", "sc0_http_err_cnt",
    "sc0_http_err_rate", "sc0_http_fail_cnt", "sc0_http_fail_rate", "sc0_http_req_cnt", "sc0_http_req_rate",
    "sc0_inc_gpc0", "sc0_inc_gpc1", "sc0_kbytes_in", "sc0_kbytes_out", "sc0_key", "sc0_sess_cnt",
    "sc0_sess_rate", "sc0_tracked", "sc0_trackers", "sc1_bytes_in_rate", "sc1_bytes_out_rate", "sc1_clr_gpc",
    "sc1_clr_gpc0", "sc1_clr_gpc1", "sc1_conn_cnt", "sc1_conn_cur", "sc1_conn_rate", "sc1_get_gpc0",
    "sc1_get_gpc1", "sc1_get_gpt0", "sc1_glitch_cnt", "sc1_glitch_rate", "sc1_gpc0_rate", "sc1_gpc1_rate",
    "sc1_http_err_cnt", "sc1_http_err_rate", "sc1_http_fail_cnt", "sc1_http_fail_rate", "sc1_http_req_cnt",
    "sc1_http_req_rate", "sc1_inc_gpc0", "sc1_inc_gpc1", "sc1_kbytes_in", "sc1_kbytes_out", "sc1_key",
    "sc1_sess_cnt", "sc1_sess_rate", "sc1_tracked", "sc1_trackers", "sc2_bytes_in_rate", "sc2_bytes_out_rate",
    "sc2_clr_gpc0", "sc2_clr_gpc1", "sc2_conn_cnt", "sc2_conn_cur", "sc2_conn_rate", "sc2_get_gpc0",
    "sc2_get_gpc1", "sc2_get_gpt0", "sc2_glitch_cnt", "sc2_glitch_rate", "sc2_gpc0_rate", "sc2_gpc1_rate",
    "sc2_http_err_cnt", "sc2_http_err_rate", "sc2_http_fail_cnt", "sc2_http_fail_rate", "sc2_http_req_cnt",
    "sc2_http_req_rate", "sc2_inc_gpc0", "sc2_inc_gpc1", "sc2_kbytes_in", "sc2_kbytes_out", "sc2_key",
    "sc2_sess_cnt", "sc2_sess_rate", "sc2_tracked", "sc2_trackers", "sc_bytes_in_rate", "sc_bytes_out_rate",
    "sc_clr_gpc", "sc_clr_gpc0", "sc_clr_gpc1", "sc_conn_cnt", "sc_conn_cur", "sc_conn_rate", "sc_get_gpc",
    "sc_get_gpc0", "sc_get_gpc1", "sc_get_gpt", "sc_get_gpt0", "sc_glitch_cnt", "sc_glitch_rate",
    "sc_gpc0_rate", "sc_gpc1_rate", "sc_gpc_rate", "sc_http_err_cnt", "sc_http_err_rate", "sc_http_fail_cnt",
    "sc_http_fail_rate", "sc_http_req_cnt", "sc_http_req_rate", "sc_inc_gpc", "sc_inc_gpc0", "sc_inc_gpc1",
    "sc_kbytes_in", "sc_kbytes_out", "sc_key", "sc_sess_cnt", "sc_sess_rate", "sc_tracked", "sc_trackers",
    "scook", "scook_cnt", "scook_val", "server_status", "set-cookie", "shdr", "shdr_cnt", "shdr_ip",
    "shdr_val", "so_id", "so_name", "spoe.engine-id", "src", "src_bytes_in_rate", "src_bytes_out_rate",
    "src_clr_gpc", "src_clr_gpc0", "src_clr_gpc1", "src_conn_cnt", "src_conn_cur", "src_conn_rate",
    "src_get_gpc", "src_get_gpc0", "src_get_gpc1", "src_get_gpt", "src_get_gpt0", "src_glitch_cnt",
    "src_glitch_rate", "src_gpc0_rate", "src_gpc1_rate", "src_gpc_rate", "src_http_err_cnt",
    "src_http_err_rate", "src_http_fail_cnt", "src_http_fail_rate", "src_http_req_cnt", "src_http_req_rate",
    "src_inc_gpc", "src_inc_gpc0", "src_inc_gpc1", "src_is_local", "src_kbytes_in", "src_kbytes_out",
    "src_port", "src_sess_cnt", "src_sess_rate", "src_updt_conn_cnt", "srv_conn", "srv_conn_free", "srv_id",
    "srv_is_up", "srv_iweight", "srv_name", "srv_queue", "srv_sess_rate", "srv_uweight", "srv_weight",
    "ssl_bc", "ssl_bc_alg_keysize", "ssl_bc_alpn", "ssl_bc_cipher", "ssl_bc_client_early_traffic_secret",
    "ssl_bc_client_handshake_traffic_secret", "ssl_bc_client_random", "ssl_bc_client_traffic_secret_0",
    "ssl_bc_curve", "ssl_bc_early_exporter_secret", "ssl_bc_err", "ssl_bc_err_str", "ssl_bc_exporter_secret",
    "ssl_bc_is_resumed", "ssl_bc_npn", "ssl_bc_protocol", "ssl_bc_server_handshake_traffic_secret",
    "ssl_bc_server_random", "ssl_bc_server_traffic_secret_0", "ssl_bc_session_id", "ssl_bc_session_key",
    "ssl_bc_sni", "ssl_bc_unique_id", "ssl_bc_use_keysize", "ssl_c_ca_err", "ssl_c_ca_err_depth",
    "ssl_c_chain_der", "ssl_c_der", "ssl_c_err", "ssl_c_i_dn", "ssl_c_key_alg", "ssl_c_notafter",
    "ssl_c_notbefore", "ssl_c_policies", "ssl_c_r_dn", "ssl_c_s_dn", "ssl_c_san", "ssl_c_serial", "ssl_c_sha1",
    "ssl_c_sig_alg", "ssl_c_used", "ssl_c_verify", "ssl_c_version", "ssl_f_der", "ssl_f_i_dn", "ssl_f_key_alg",
    "ssl_f_notafter", "ssl_f_notbefore", "ssl_f_s_dn", "ssl_f_serial", "ssl_f_sha1", "ssl_f_sig_alg",
    "ssl_f_version", "ssl_fc", "ssl_fc_alg_keysize", "ssl_fc_alpn", "ssl_fc_cipher", "ssl_fc_cipherlist_bin",
    "ssl_fc_cipherlist_hex", "ssl_fc_cipherlist_str", "ssl_fc_cipherlist_xxh",
    "ssl_fc_client_early_traffic_secret", "ssl_fc_client_handshake_traffic_secret", "ssl_fc_client_random",
    "ssl_fc_client_traffic_secret_0", "ssl_fc_crtname", "ssl_fc_curve", "ssl_fc_early_exporter_secret",
    "ssl_fc_early_rcvd", "ssl_fc_ecformats_bin", "ssl_fc_eclist_bin", "ssl_fc_err", "ssl_fc_err_str",
    "ssl_fc_exporter_secret", "ssl_fc_extlist_bin", "ssl_fc_has_crt", "ssl_fc_has_early", "ssl_fc_has_sni",
    "ssl_fc_is_resumed", "ssl_fc_npn", "ssl_fc_protocol", "ssl_fc_protocol_hello_id",
    "ssl_fc_server_handshake_traffic_secret", "ssl_fc_server_random", "ssl_fc_server_traffic_secret_0",
    "ssl_fc_session_id", "ssl_fc_session_key", "ssl_fc_sigalgs_bin", "ssl_fc_sni",
    "ssl_fc_supported_versions_bin", "ssl_fc_unique_id", "ssl_fc_use_keysize", "ssl_s_chain_der", "ssl_s_der",
    "ssl_s_i_dn", "ssl_s_key_alg", "ssl_s_notafter", "ssl_s_notbefore", "ssl_s_s_dn", "ssl_s_serial",
    "ssl_s_sha1", "ssl_s_sig_alg", "ssl_s_version", "status", "stopping", "str", "table_avl", "table_cnt",
    "term_events", "tgroup", "thread", "txn.conn_retries", "txn.id32", "txn.redispatched",
    "txn.sess_term_state", "txn.status", "txn.timer.total", "txn.timer.user", "unique-id", "uptime", "url",
    "url32", "url32+src", "url_ip", "url_param", "url_port", "urlp", "urlp_val", "uuid", "var", "wait_end",
    "waiting_entity",
];

/// Why there will be no row for a fetch of the language, if that is so.
pub fn why_never(name: &str) -> Option<&'static str> {
    Some(match name {
        "ssl_bc_npn" => "NPN became ALPN: write 'ssl_bc_alpn'",
        "ssl_fc_npn" => "NPN became ALPN: write 'ssl_fc_alpn'",
        "ssl_bc_session_id" | "ssl_fc_session_id" => "the TLS library does not tell the number of a session",
        "ssl_bc_session_key" | "ssl_fc_session_key" => {
            "the TLS library does not tell it; 'tune.ssl.keylog' and the fetches of secrets do"
        }
        "ssl_bc_unique_id" | "ssl_fc_unique_id" => {
            "the TLS library does not tell it, and TLSv1.3 has none (RFC 8446, C.5)"
        }
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    #[test]
    fn what_never_comes_is_known() {
        let never = super::NAMES.iter().filter(|name| super::why_never(name).is_some());
        assert_eq!(never.count(), 8);
    }

    #[test]
    fn names_are_sorted() {
        assert!(super::NAMES.is_sorted());
    }
}
