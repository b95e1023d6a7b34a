"""Every key that a fleet directory may have does something that a test shows, or is in the table `declared/later`."""

import ast
from functools import lru_cache
from pathlib import Path
from typing import Literal

from msgspec import Struct, inspect

from holdfast.declared import later
from holdfast.declared.reference import below_idle_keys
from holdfast.declared.schema import plain
from tests.specs.declared.test_declared_reference import TABLES

TESTS = Path(__file__).parents[2]
Key = tuple[str, str]

# Key → the test that shows its effect, by name: tests move between files more often than they are renamed.
EFFECTS: dict[str, dict[str, str]] = {
    "FleetFile": {
        "fleet": "test_a_plain_fleet_file_is_read",
        "operators": "test_an_operator_who_leaves_the_trust_is_out_with_his_next_request",
        "nodes": "test_fewest_containers_then_the_alphabet_m_37",
        "trust": "test_a_threshold_of_two_collects_two_signatures",
        "timeouts": "test_the_limit_is_the_fleets_own",
        "storage": "test_every_backup_goes_to_all_targets_of_its_node",
        "backups": "test_a_service_is_backed_up_at_the_interval_of_the_fleet",
        "alerts": "test_an_alert_target_is_applied_with_grade_destroy_and_touches_no_node_x04",
        "acme": "test_a_public_authority_s_certificate_is_served_and_its_absence_is_told",
        "dns": "test_whoever_serves_dns_knows_every_internal_name_c20",
        "overlay": "test_a_public_service_is_never_placed_where_there_is_no_proxy_m48_t32",
        "provides": "test_the_provider_alone_gets_what_it_provides_with_its_sealed_secret",
    },
    "Provides": {
        "node": "test_the_provider_alone_gets_what_it_provides_with_its_sealed_secret",
        "type": "test_a_provider_of_another_type_has_the_fields_of_its_answers_as_facts",
        "services": "test_the_only_provider_that_lists_the_service_meets_its_need_f02",
        "params": "test_a_provider_of_another_type_has_the_fields_of_its_answers_as_facts",
        "grace": "test_who_must_sign_for_what_is_provided",
        "ttl": "test_who_must_sign_for_what_is_provided",
    },
    "Need": {
        "name": "test_both_nodes_of_a_pair_get_it_with_the_key_and_the_address_of_the_other_f25",
        "type": "test_the_only_provider_that_lists_the_service_meets_its_need_f02",
        "provider": "test_a_need_may_name_its_provider",
        "params": "test_a_provider_of_another_type_has_the_fields_of_its_answers_as_facts",
        "deliver": "test_a_directory_of_credentials_overlaps_no_other_mount",
        "on_change": "test_what_restarts_and_what_holds_a_start_is_in_the_document_of_the_service",
        "required": "test_what_restarts_and_what_holds_a_start_is_in_the_document_of_the_service",
    },
    "Deliver": {
        "path": "test_a_directory_of_credentials_overlaps_no_other_mount",
        "components": "test_a_directory_of_credentials_overlaps_no_other_mount",
    },
    "Settings": {
        "name": "test_validate_names_the_fleet",
        "hub": "test_which_hub_is_asked",
        "hub_key": "test_whom_the_command_line_believes",
        "internal_zone": "test_another_zone_is_another_name_and_the_door_is_told",
        "public_domains": "test_without_public_domains_nothing_is_public",
        "overlay_cidr": "test_an_overlay_or_a_domain_that_changed_takes_the_route_away_at_once_i_16",
        "removals_max": "test_too_many_removals_at_once_are_refused",
        "nodes_max": "test_the_fleet_has_so_many_nodes_and_no_more",
        "parallel": "test_a_node_changes_as_many_services_at_a_time_as_the_fleet_says",
    },
    "Thresholds": {
        "apply": "test_where_one_signature_is_not_enough_nothing_is_handed_in",
        "destroy": "test_thresholds_and_the_fleets_own_id_count_as_well",
        "destroy_requires": "test_only_a_touched_security_key_of_the_grade_counts",
        "root": "test_trust_needs_root_and_founding_it_does_not",
        "id": "test_thresholds_and_the_fleets_own_id_count_as_well",
    },
    "Operator": {
        "name": "test_a_scope_limits_what_an_operator_signs",
        "key": "test_an_operator_who_leaves_the_trust_is_out_with_his_next_request",
        "grade": "test_a_low_grade_signs_and_still_does_not_suffice",
        "recipient": "test_a_kept_value_is_sealed_to_todays_nodes_and_people",
        "scope": "test_a_scope_limits_what_an_operator_signs",
    },
    "Node": {
        "name": "test_a_pin_overrides_the_tier_m_36",
        "peer_calls": "test_a_node_that_may_call_no_other_moves_through_the_hub",
        "roles": "test_core_goes_to_the_hub_node_m_35",
        "address": "test_an_edge_is_told_where_its_hostnames_lead_and_whom_to_believe_there_m81",
        "public_address": "test_a_public_record_that_leads_elsewhere_is_a_warning_only_m_80",
        "key": "test_a_declared_key_wins_and_needs_no_join",
        "link": "test_a_node_listens_as_the_accepted_revision_says_and_a_poll_node_does_not",
        "reconcile": "test_an_observing_node_touches_nothing_and_says_what_differs_c_04",
        "orphans": "test_orphans_are_stopped_or_removed_where_the_node_says_so_c_05",
        "orphans_foreign": "test_orphans_are_stopped_or_removed_where_the_node_says_so_c_05",
        "proxy": "test_where_there_is_no_proxy_routes_are_neither_made_nor_looked_at_t_33",
    },
    "Timeouts": {
        "deploy": "test_the_limit_is_the_fleets_own",
        "edge_route": "test_a_command_waits_as_long_as_the_timeouts_of_the_applied_fleet_allow",
        "health_check": "test_a_probe_takes_as_long_as_the_applied_revision_says",
        "undeploy": "test_a_backend_that_does_not_stop_is_not_waited_for_without_end",
        "snapshot": "test_a_backup_waits_for_a_change_as_long_as_the_fleet_says_and_is_skipped_then_c18",
    },
    "Backups": {
        "interval": "test_a_service_is_backed_up_at_the_interval_of_the_fleet",
        "retain": "test_as_many_backups_stay_as_the_fleet_says",
        "drill_interval": "test_a_backup_is_proven_at_drill_interval_also_without_a_hub_h60",
        "cron": "test_a_service_is_backed_up_at_the_minutes_of_a_cron_expression",
        "drill_cron": "test_a_backup_is_proven_at_the_minutes_of_drill_cron",
        "timezone": "test_a_service_is_backed_up_at_the_minutes_of_a_cron_expression",
    },
    "Drill": {
        "cmd": "test_cmd_of_the_drill_runs_inside_within_its_timeout",
        "timeout": "test_cmd_of_the_drill_runs_inside_within_its_timeout",
    },
    "Retain": {
        "last": "test_a_table_keeps_the_newest_and_one_of_each_day_week_and_month",
        "daily": "test_a_table_keeps_the_newest_and_one_of_each_day_week_and_month",
        "weekly": "test_a_table_keeps_the_newest_and_one_of_each_day_week_and_month",
        "monthly": "test_a_table_keeps_the_newest_and_one_of_each_day_week_and_month",
    },
    "Storage": {
        "name": "test_every_backup_goes_to_all_targets_of_its_node",
        "type": "test_a_declared_target_becomes_the_product_of_its_type",
        "durable_id": "test_a_declared_target_becomes_the_product_of_its_type",
        "location": "test_a_declared_target_becomes_the_product_of_its_type",
        "nodes": "test_the_nodes_that_a_target_names_get_it_with_its_sealed_credentials_and_no_other_node_does",
        "secret": "test_the_nodes_that_a_target_names_get_it_with_its_sealed_credentials_and_no_other_node_does",
        "class": "test_a_restore_reads_fast_targets_first_and_offsite_ones_last",
        "role": "test_the_declared_primary_target_decides_whether_a_backup_is_made",
        "policy": "test_each_target_keeps_as_many_backups_as_its_policy_says",
        "state": "test_a_target_that_the_revision_detaches_is_not_written_any_more_and_keeps_what_it_has",
    },
    "StoragePolicy": {
        "retain": "test_each_target_keeps_as_many_backups_as_its_policy_says",
    },
    "Snapshot": {
        "method": "test_a_path_of_the_host_is_held_in_part_unless_a_method_says_more_m91",
        "include": "test_the_files_of_a_backup_are_those_that_the_service_declares_m92",
        "exclude": "test_the_files_of_a_backup_are_those_that_the_service_declares_m92",
        "restore": "test_a_dump_is_loaded_beside_the_service_and_then_becomes_its_data",
        "component": "test_every_transaction_acknowledged_before_the_backup_is_there_after_a_wipe_and_a_restore",
        "volume": "test_what_a_command_writes_is_in_the_backup_in_the_place_of_the_volume",
    },
    "AlertTarget": {
        "name": "test_what_was_not_delivered_is_said_with_a_remedy_and_without_the_secret",
        "webhook": "test_a_webhook_gets_the_whole_alert_as_json",
        "apprise": "test_an_alert_and_its_recovery_arrive_in_order",
        "on": "test_whoever_is_told_of_a_trouble_is_told_that_it_is_over",
        "secret": "test_x17_a_dead_hub_is_told_once_and_its_return_once",
        "nodes": "test_the_nodes_that_send_get_the_target_and_its_sealed_address_and_no_other_node_does",
        "after": "test_each_target_has_its_own_time",
        "quiet": "test_what_is_raised_in_quiet_hours_is_sent_when_they_end",
        "timezone": "test_quiet_hours_follow_the_clock_of_their_time_zone",
        "quiet_except": "test_what_is_excepted_is_sent_in_quiet_hours_with_its_recovery",
    },
    "Acme": {
        "directory": "test_a_nonce_that_is_over_is_fetched_anew",
        "contact": "test_the_account_has_the_contact_that_the_fleet_declares",
        "terms_agreed": "test_nobody_agrees_to_terms_for_the_operator",
        "ca": "test_an_authority_that_nobody_vouches_for_is_not_asked",
        "domains": "test_only_the_domains_of_the_authority_are_ordered_there",
    },
    "Dns": {
        "driver": "test_whoever_serves_dns_knows_every_internal_name_c20",
        "nodes": "test_whoever_serves_dns_knows_every_internal_name_c20",
        "upstream": "test_names_of_the_zone_are_never_asked_elsewhere_and_others_are",
    },
    "Overlay": {
        "encrypted": "test_a_public_service_is_never_placed_where_there_is_no_proxy_m48_t32",
    },
    "Service": {
        "components": "test_components_of_one_service_share_a_network_and_a_single_one_needs_none",
        "name": "test_a_name_key_must_repeat_the_file_name_m40",
        "tier": "test_core_goes_to_the_hub_node_m_35",
        "node": "test_a_pin_overrides_the_tier_m_36",
        "active": "test_what_is_stopped_on_purpose_or_lists_nobody_is_never_started_elsewhere",
        "protect": "test_protection_survives_the_file_that_declared_it",
        "failover": "test_a_power_cut_is_bridged_by_the_listed_node_and_undone_when_home_serves_again",
        "snapshot": "test_the_files_of_a_backup_are_those_that_the_service_declares_m92",
        "schedule": "test_a_run_has_the_image_the_volumes_and_a_container_of_its_own",
        "drill": "test_cmd_of_the_drill_runs_inside_within_its_timeout",
        "needs": "test_the_only_provider_that_lists_the_service_meets_its_need_f02",
    },
    "Schedule": {
        "name": "test_a_run_has_the_image_the_volumes_and_a_container_of_its_own",
        "component": "test_a_run_has_the_image_the_volumes_and_a_container_of_its_own",
        "cron": "test_every_minute_runs_once_also_without_a_hub",
        "cmd": "test_a_run_has_the_image_the_volumes_and_a_container_of_its_own",
        "timezone": "test_the_minutes_are_those_of_the_time_zone",
        "timeout": "test_a_run_that_takes_too_long_is_ended",
        "overlap": "test_overlap_queue_lets_it_wait",
        "retries": "test_a_retry_is_another_attempt_of_the_same_run",
    },
    "Component": {
        "name": "test_a_component_with_a_route_has_an_internal_name_and_one_named_like_its_service_a_short_one_m79",
        "image": "test_the_image_runs_by_the_digest_that_was_resolved_or_written",
        "cmd": "test_anything_a_container_is_made_of_is_another_spec",
        "env": "test_the_environment_is_sorted_and_says_who_it_is_whatever_the_file_claims",
        "volumes": "test_volumes_lie_below_the_data_directory_and_other_host_paths_are_as_written",
        "routes": "test_ports_are_those_of_the_routes_and_of_the_health_check_each_once",
        "resources": "test_resources_are_numbers",
        "update": "test_what_has_data_or_says_so_is_replaced_in_place",
        "replicas": "test_replicas_are_added_and_taken_away",
        "health": "test_how_it_is_looked_after_is_beside_the_spec_and_does_not_change_the_container",
        "secrets": "test_secrets_are_files_named_like_them_unless_said_otherwise_and_a_rotated_one_is_another_spec",
        "hooks": "test_hooks_run_once_in_the_new_image_and_a_failing_one_stops_the_rollout",
        "user": "test_a_component_runs_as_the_user_that_it_declares_n13",
        "settle": "test_without_routes_and_checks_a_component_must_live_for_its_settle_time_n16",
        "stop_timeout": "test_a_container_has_the_time_of_its_spec_to_end_n46",
        "scratch": "test_a_volume_of_the_image_that_the_file_does_not_name_is_a_finding_until_it_is_answered_n14",
    },
    "Volume": {
        "name": "test_volumes_lie_below_the_data_directory_and_other_host_paths_are_as_written",
        "path": "test_volumes_lie_below_the_data_directory_and_other_host_paths_are_as_written",
        "protect": "test_weakening_is_noticed_in_every_combination",
        "checkpoint": "test_a_volume_that_is_off_is_not_copied_and_its_new_writer_starts_at_once",
        "owner": "test_a_declared_owner_has_the_whole_new_volume_n13",
    },
    "Route": {
        "name": "test_a_public_service_has_two_names_m134_m136",
        "port": "test_ports_are_those_of_the_routes_and_of_the_health_check_each_once",
        "mode": "test_bytes_are_passed_on_at_the_listener_of_their_port_m13",
        "hostname": "test_a_hostname_that_is_not_public_is_a_further_internal_name_m41",
        "public": "test_a_public_service_has_two_names_m134_m136",
        "protocol": "test_grpc_passes_with_streams_and_trailers",
        "pass_headers": "test_a_route_has_the_headers_passed_that_it_names_and_no_other_route_has",
    },
    "Resources": {
        "cpu": "test_resources_are_numbers",
        "memory": "test_resources_are_numbers",
    },
    "Health": {
        "type": "test_a_connection_is_enough_for_tcp_and_none_is_not",
        "path": "test_it_asks_for_the_path_once_and_closes",
        "port": "test_ports_are_those_of_the_routes_and_of_the_health_check_each_once",
        "cmd": "test_a_command_is_run_in_the_container_and_its_exit_code_counts",
        "interval": "test_probes_are_eager_while_it_starts_and_then_keep_the_declared_pace",
        "timeout": "test_a_command_is_run_in_the_container_and_its_exit_code_counts",
        "start_period": "test_one_that_is_not_healthy_when_its_start_period_is_over_has_failed_and_may_still_recover",
    },
    "SecretRef": {
        "name": "test_secrets_are_files_named_like_them_unless_said_otherwise_and_a_rotated_one_is_another_spec",
        "env": "test_secrets_are_files_named_like_them_unless_said_otherwise_and_a_rotated_one_is_another_spec",
        "file": "test_secrets_are_files_named_like_them_unless_said_otherwise_and_a_rotated_one_is_another_spec",
    },
    "Hooks": {
        "pre_deploy": "test_hooks_run_once_in_the_new_image_and_a_failing_one_stops_the_rollout",
        "post_deploy": "test_hooks_run_once_in_the_new_image_and_a_failing_one_stops_the_rollout",
    },
}
# The values of keys with a fixed list: the tests above show them all. A new value is added here with its test.
VALUES: dict[Key, set[str]] = {
    ("Thresholds", "destroy_requires"): {"touch"},
    ("Operator", "grade"): {"apply", "destroy", "root"},
    ("Node", "roles"): {"hub", "worker", "edge", "provider"},
    ("Node", "link"): {"poll", "dial"},
    ("Node", "reconcile"): {"converge", "observe"},
    ("Node", "orphans"): {"report", "stop", "remove"},
    ("Node", "peer_calls"): {"declared", "relay", "off"},
    ("Node", "proxy"): {"internal", "public", "none"},
    ("Storage", "type"): {"local-dir", "usb", "s3", "restic"},
    ("Storage", "class"): {"fast", "slow"},
    ("Storage", "role"): {"primary", "copy", "offsite"},
    ("Storage", "state"): {"attached", "disconnected", "decommissioned"},
    ("Dns", "driver"): {"dnsmasq", "none"},
    ("Service", "tier"): {"core", "worker"},
    ("Component", "update"): {"rolling", "recreate"},
    ("Volume", "checkpoint"): {"auto", "off"},
    ("Route", "mode"): {"l4", "l7"},
    ("Route", "protocol"): {"http1", "h2c"},
    ("Health", "type"): {"http", "tcp", "grpc", "exec"},
    ("Schedule", "overlap"): {"skip", "queue"},
}
WITH_EFFECT: dict[Key, str] = {(table, key): test for table, keys in EFFECTS.items() for key, test in keys.items()}


def is_idle(table: str, field: inspect.Field) -> bool:
    """Whether every value but the default is in the table of keys without an effect."""
    if later.of_key(table, field.encode_name) is not None:
        return True
    values = values_of(field)
    others = [value for value in values if value != field.default] if values else [""]
    return all(later.of_value(table, field.encode_name, value) is not None for value in others)


def values_of(field: inspect.Field) -> list[str]:
    """The values that a key can have, or each element of its list; [] if they are not enumerated."""
    kind = plain(field.type)
    kind = plain(kind.item_type) if isinstance(kind, inspect.VarTupleType) else kind
    return [str(value) for value in kind.values] if isinstance(kind, inspect.LiteralType) else []


def values_without(tables: dict[type, inspect.StructType], shown: dict[Key, set[str]]) -> list[tuple[str, str, str]]:
    """Values of keys with an effect that are neither listed as shown nor stand in the table."""
    return [
        (cls.__name__, field.encode_name, value)
        for cls, kind in tables.items()
        if cls not in below_idle_keys()
        for field in kind.fields
        if not is_idle(cls.__name__, field)
        for value in values_of(field)
        if value not in shown.get((cls.__name__, field.encode_name), ())
        and later.of_value(cls.__name__, field.encode_name, value) is None
    ]


def keys_without(tables: dict[type, inspect.StructType], shown: dict[Key, str]) -> list[Key]:
    """Keys that neither have a test nor stand in the table."""
    return [
        (cls.__name__, field.encode_name)
        for cls, kind in tables.items()
        if cls not in below_idle_keys()
        for field in kind.fields
        if (cls.__name__, field.encode_name) not in shown and not is_idle(cls.__name__, field)
    ]


@lru_cache
def names_of_tests(tests: Path) -> frozenset[str]:
    functions = (ast.FunctionDef, ast.AsyncFunctionDef)
    return frozenset(
        node.name
        for path in tests.rglob("test_*.py")
        for node in ast.parse(path.read_text()).body
        if isinstance(node, functions) and node.name.startswith("test_")
    )


def test_every_key_has_an_effect_that_a_test_shows_or_is_in_the_table() -> None:
    assert keys_without(TABLES, WITH_EFFECT) == [], "name a test in EFFECTS, or write a row in declared/later.py"


def test_every_value_has_an_effect_that_a_test_shows_or_is_in_the_table() -> None:
    assert values_without(TABLES, VALUES) == [], "write the value in VALUES, or a row in declared/later.py"


def test_no_key_is_both_with_and_without_an_effect_and_none_is_unknown() -> None:
    idle = {
        (cls.__name__, field.encode_name)
        for cls, kind in TABLES.items()
        for field in kind.fields
        if cls in below_idle_keys() or is_idle(cls.__name__, field)
    }
    known = {(cls.__name__, field.encode_name) for cls, kind in TABLES.items() for field in kind.fields}
    assert WITH_EFFECT.keys() & idle == set()
    assert WITH_EFFECT.keys() - known == set()


def test_every_named_test_exists() -> None:
    assert sorted(set(WITH_EFFECT.values()) - names_of_tests(TESTS)) == []


class _New(Struct):
    """A table as a later release might have it: two keys are new."""

    colour: str = ""
    shape: Literal["round", "flat"] = "round"


def test_a_new_key_or_value_without_an_entry_is_found() -> None:
    kind = inspect.type_info(_New)
    assert isinstance(kind, inspect.StructType)
    assert keys_without({_New: kind}, WITH_EFFECT) == [("_New", "colour"), ("_New", "shape")]
    assert values_without({_New: kind}, {("_New", "shape"): {"round"}}) == [("_New", "shape", "flat")]
